# Writes ${OUT}: a header with a digest of ${HEADERS}, their names below ${FOLDER} included.
#   cmake -DFOLDER=... -DHEADERS=a.h;b.h -DOUT=... -P HeaderDigest.cmake
set(all "")
foreach(header ${HEADERS})
  file(SHA256 ${header} digest)
  file(RELATIVE_PATH name ${FOLDER} ${header})
  string(APPEND all "${name} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUT} "#pragma once\ninline constexpr const char* kHeaderDigest = \"${digest}\";\n")
