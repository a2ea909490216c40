/** A kind of model whose fit never ends. */
import type { ModelKind } from 'svcdb'

const endless: ModelKind = {
  fit() {
    for (;;);
  },
  predict: (_, horizon) => ({ values: new Float64Array(horizon), std: new Float64Array(horizon) }),
}

export default endless
