#pragma once

#include "compiler/base/diagnostic.h"

#include <weft/result.h>

#include <utility>

/// `WEFT_TRY(auto x, f());` binds the value or returns the error to the caller.
#define WEFT_TRY(declaration, expression) WEFT_TRY_(declaration, expression, __LINE__)
#define WEFT_TRY_(declaration, expression, line) WEFT_TRY__(declaration, expression, line)
#define WEFT_TRY__(declaration, expression, line) \
  auto weft_result_##line = (expression);         \
  if (!weft_result_##line.ok()) {                 \
    return std::move(weft_result_##line).error(); \
  }                                               \
  declaration = std::move(weft_result_##line).value()
#define WEFT_CHECK(expression)                              \
  if (auto weft_status = (expression); !weft_status.ok()) { \
    return std::move(weft_status).error();                  \
  }
