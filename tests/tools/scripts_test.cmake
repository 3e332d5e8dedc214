# Every script explains itself, and refuses what it does not know instead of starting.
file(GLOB scripts ${TOOLS}/*.sh ${TOOLS}/*.py)
list(FILTER scripts EXCLUDE REGEX "/packages.sh$")  # to be sourced
foreach(script ${scripts})
  execute_process(COMMAND ${script} --help RESULT_VARIABLE result OUTPUT_VARIABLE out)
  get_filename_component(name ${script} NAME)
  if(NOT result EQUAL 0 OR NOT out MATCHES "${name}")
    message(SEND_ERROR "${name} --help: exit code ${result}, prints:\n${out}")
  endif()
endforeach()
execute_process(COMMAND ${TOOLS}/format.sh --chekc RESULT_VARIABLE result ERROR_VARIABLE out)
if(NOT result EQUAL 2 OR NOT out MATCHES "unknown option --chekc")
  message(SEND_ERROR "format.sh --chekc: exit code ${result}, prints:\n${out}")
endif()
