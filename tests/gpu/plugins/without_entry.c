/* A library, but no plug-in; also what another one needs. */
int something_else(void);
int something_else(void) { return 1; }
