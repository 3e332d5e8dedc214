/* A plug-in of another release: its table begins with another fingerprint. */
struct table {
  const char* fingerprint;
  void (*functions[3])(void);
};
const struct table* assay_cuda_plugin(void);
const struct table* assay_cuda_plugin(void) {
  static const struct table table = {"0.0.1 of another compiler", {0, 0, 0}};
  return &table;
}
