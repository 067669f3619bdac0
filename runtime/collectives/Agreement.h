// What processes say of a collective before its data move: it has to be the same.
#ifndef KILN_RUNTIME_COLLECTIVES_AGREEMENT_H
#define KILN_RUNTIME_COLLECTIVES_AGREEMENT_H

#include "Call.h"

#include <functional>

namespace kiln::collectives {

/// Makes every process have all parts of `data`, one of `bytes` bytes for each. Its own is there.
using Gather = std::function<void(char *data, size_t bytes)>;

/// Throws a Failure, in all processes, if they are not at the same collective, or if sizes differ.
/// `data` is memory for it.
void agree(const Call &call, const Sizes &sizes, int rank, char *data, const Gather &gather);
size_t getAgreementBytes(const Call &call);

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_AGREEMENT_H
