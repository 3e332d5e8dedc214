// Stands for the precompiled header of the tests (compile.cmake): a target needs a source.
