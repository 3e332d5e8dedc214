#include "tools/common/interrupt.h"

#include <csignal>

namespace assay::tools {
namespace {

volatile std::sig_atomic_t interrupt_came = 0;
void remember_interrupt(int) { interrupt_came = 1; }

}  // namespace

void remember_interrupts() {
  std::signal(SIGINT, remember_interrupt);
  std::signal(SIGTERM, remember_interrupt);
}

bool interrupted() { return interrupt_came != 0; }

}  // namespace assay::tools
