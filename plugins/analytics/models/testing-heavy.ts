/** A kind of model that takes memory: in buffers, in objects, or as a state that is to be kept. */
import type { ModelKind } from 'svcdb'

const heavy: ModelKind = {
  fit(values, { where, megabytes }) {
    if (where === 'state') return { state: { text: 'x'.repeat(Number(megabytes) * 2 ** 20) }, fitted: values }
    const kept: unknown[] = []
    for (;;) {
      if (kept.length < 8 * Number(megabytes)) kept.push(where === 'buffers' ? new Float64Array(16_384).fill(1) : Array.from({ length: 16_384 }, (_, i) => [i]))
    }
  },
  predict: (_, horizon) => ({ values: new Float64Array(horizon), std: new Float64Array(horizon) }),
}

export default heavy
