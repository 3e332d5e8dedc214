# Classes of photographs, by the example's network (16 x 16 pixels of grey, 4 classes).
include(${CMAKE_CURRENT_LIST_DIR}/expect.cmake)
execute_process(COMMAND ${EXAMPLE} ${WORK}/a.ckpt OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(images ${CMAKE_CURRENT_LIST_DIR}/../fixtures/images)
file(COPY ${images}/colour_420.jpg ${images}/grey.jpg ${images}/one_pixel.jpg DESTINATION ${WORK}/photos)

expect(0 "Examples:\n  assay-predict runs" --help)
expect(0 "colour_420.jpg\tclass [0-9]\t[01][.][0-9]+\nphotos/grey.jpg\tclass [0-9]\t.*one_pixel" a.ckpt photos -q)
expect(0 "grey.jpg(\tclass [0-9]\t[01][.][0-9]+)(\tclass [0-9]\t[01][.][0-9]+)(\tclass [0-9]\t[01][.][0-9]+)\n" a.ckpt photos/grey.jpg -q --top 3)
expect(0 "labelling: 3 pictures" a.ckpt photos)
file(WRITE ${WORK}/names.txt "n0\nn1\nn2\nn3\n\n")
expect(0 "grey.jpg\tn[0-9]\t" a.ckpt photos/grey.jpg --names names.txt)
# What is done to the pixels decides: black in other words is another picture.
expect(0 "grey.jpg" a.ckpt photos/grey.jpg -q --top 10)
execute_process(COMMAND ${TOOL} a.ckpt photos/grey.jpg -q --top 10 WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE plain)
execute_process(COMMAND ${TOOL} a.ckpt photos/grey.jpg -q --top 10 --prepare "{\"scale\": 0.01, \"mean\": [1]}" WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE other)
if(plain STREQUAL other)
  message(SEND_ERROR "--prepare changes nothing: ${plain}")
endif()

expect(2 "cannot have the key .flip." a.ckpt photos --prepare "{\"flip\": 1}")
foreach(value "\"0.004\"" true null "[1]")
  expect(2 "preparation's .scale. is not a number" a.ckpt photos --prepare "{\"scale\": ${value}}")
endforeach()
expect(2 "preparation's .mean. is not a number" a.ckpt photos --prepare "{\"mean\": [\"x\"]}")
foreach(value "\"224\"" null -5 1e300 28.9)
  expect(2 "preparation's .resize_shorter. is not a " a.ckpt photos --prepare "{\"resize_shorter\": ${value}}")
  expect(2 "preparation's .size. is not a " a.ckpt photos --prepare "{\"size\": ${value}}")
endforeach()
expect(2 "preparation's .padded. is not a number" a.ckpt photos --prepare "{\"padded\": \"x\"}")
expect(2 "preparation's .stddev. is not something to divide by" a.ckpt photos --prepare "{\"stddev\": 0}")
expect(2 "preparation's .crop. is not .centre." a.ckpt photos --prepare "{\"crop\": \"random\"}")
expect(2 "images of cnn have the size of its configuration" a.ckpt photos --prepare "{\"size\": [14, 14]}")
expect(2 "nothing that --to could hold" a.ckpt photos --to out)
file(WRITE ${WORK}/two.txt "n0\nn1\n")
expect(2 "two.txt. names 2 classes, the model has 4" a.ckpt photos --names two.txt)
expect(2 "no JSON object" a.ckpt photos --prepare "scale 1")
expect(2 "which the sizes of the preparation do not fit" a.ckpt photos --prepare "{\"resize_shorter\": 4}")
expect(2 "there is no device .gpu." a.ckpt photos --device gpu)
expect(6 "nothing.jpg. is not there" a.ckpt nothing.jpg)
expect(6 "a.ckpt. is no picture" a.ckpt a.ckpt)
expect(6 "nothing.ckpt" nothing.ckpt photos)
# One that is broken among others is named, and the others are labelled.
file(COPY ${WORK}/photos/ DESTINATION ${WORK}/mixed)
file(WRITE ${WORK}/mixed/broken.jpg "no picture")
expect(6 "mixed/broken.jpg. is no picture.*1 of 4 files could not be read" a.ckpt mixed -q)
expect(6 "mixed/colour_420.jpg\tclass [0-9].*mixed/grey.jpg\tclass [0-9].*mixed/one_pixel.jpg\tclass" a.ckpt mixed -q)

# Of a network of the host's own the output called "logits" tells the classes, or the only one, or the one that is asked for.
function(network FILE OUTPUTS)
  execute_process(COMMAND ${WRITER} ${FILE} graph "{\"name\": \"net\", \"inputs\": [
      {\"name\": \"image\", \"attributes\": {\"shape\": [4, 4, 1]}},
      {\"name\": \"label\", \"attributes\": {\"dtype\": \"i32\", \"label\": true, \"range\": [0, 3]}}], \"layers\": [
      {\"kind\": \"flatten\", \"name\": \"flat\", \"inputs\": [\"image\"], \"attributes\": {}},
      {\"kind\": \"linear\", \"name\": \"wide\", \"inputs\": [\"flat\"], \"attributes\": {\"features\": 8}},
      {\"kind\": \"linear\", \"name\": \"head\", \"inputs\": [\"wide\"], \"attributes\": {\"features\": 3}},
      ${ARGN}
      {\"kind\": \"softmax_cross_entropy\", \"name\": \"ce\", \"inputs\": [\"head\", \"label\"], \"attributes\": {}}],
      \"outputs\": [{\"name\": \"loss\", \"value\": \"ce\", \"weight\": \"\", \"attributes\": {}}, ${OUTPUTS}]}"
    "{\"optimizer\": {\"name\": \"sgd\"}}" WORKING_DIRECTORY ${WORK} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(output VARIABLE NAME VALUE)
  set(${VARIABLE} "{\"name\": \"${NAME}\", \"value\": \"${VALUE}\", \"weight\": \"\", \"attributes\": {}}" PARENT_SCOPE)
endfunction()
output(features features wide)
output(logits logits head)
output(answer answer head)
output(probs probs p)
network(logits.ckpt "${features}, ${logits}")
network(answer.ckpt "${features}, ${answer}")
network(probs.ckpt "${probs}" "{\"kind\": \"probabilities\", \"name\": \"p\", \"inputs\": [\"head\"], \"attributes\": {}},")
set(line "grey.jpg\tclass [0-2]\t0[.][0-9]+\tclass [0-2]\t0[.][0-9]+\tclass [0-2]\t0[.][0-9]+\n$")
expect(0 "${line}" logits.ckpt photos/grey.jpg -q --top 9)
execute_process(COMMAND ${TOOL} logits.ckpt photos/grey.jpg -q --top 9 WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE expected)
foreach(checkpoint "answer.ckpt;--output;answer" probs.ckpt)
  execute_process(COMMAND ${TOOL} ${checkpoint} photos/grey.jpg -q --top 9 WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE same)
  if(NOT same STREQUAL expected)
    message(SEND_ERROR "${checkpoint}: ${same} is not ${expected}")
  endif()
endforeach()
expect(2 "gives features answer and none of them is called logits" answer.ckpt photos/grey.jpg)
expect(2 "no output 'logit' holds scores" answer.ckpt photos/grey.jpg --output logit)
