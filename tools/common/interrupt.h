// Signals that ask a program to stop.
#pragma once

namespace assay::tools {

// From now on SIGINT and SIGTERM no longer end the process: `interrupted` says that one came.
void remember_interrupts();
bool interrupted();

}  // namespace assay::tools
