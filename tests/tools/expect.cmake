# expect(<exit code> <regular expression> <arguments...>): runs ${TOOL} in ${WORK}; output is stdout and stderr together.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
function(expect code pattern)
  execute_process(COMMAND ${TOOL} ${ARGN} WORKING_DIRECTORY ${WORK} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result STREQUAL code OR NOT out MATCHES "${pattern}")
    message(SEND_ERROR "${ARGN}\nexit code ${result}, expected ${code}; expected output ${pattern}, got:\n${out}")
  endif()
endfunction()
