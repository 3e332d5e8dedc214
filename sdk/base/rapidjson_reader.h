// RapidJSON's reader. Version 1.1 adds to the null pointer of a stack that is empty, which is
// undefined and harmless; clang's sanitizer would stop there.
#pragma once

#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#if defined(__clang__)
#pragma clang attribute pop
#endif
