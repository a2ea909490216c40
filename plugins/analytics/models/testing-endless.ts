/** A kind of model whose fit never ends, of as many values as it is told, and else at once. */
import type { ModelKind } from 'svcdb'

const endless: ModelKind = {
  fit(values, { from = 0 }) {
    while (values.length >= Number(from));
    return { state: { last: values[values.length - 1] }, fitted: values }
  },
  predict: (_, horizon) => ({ values: new Float64Array(horizon), std: new Float64Array(horizon) }),
}

export default endless
