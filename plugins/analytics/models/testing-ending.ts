/** A kind of model whose thread ends: while it fits, or after it has answered, once `gate` is 1. */
import type { ModelKind } from 'svcdb'

const ending: ModelKind = {
  fit(values, { when, gate }) {
    if (when === 'now') process.exit(3)
    const open = new Int32Array(gate as SharedArrayBuffer)
    const timer = setInterval(() => {
      if (Atomics.load(open, 0) === 0) return
      clearInterval(timer)
      if (when === 'thrown') throw new Error('late')
      process.exit(3)
    }, 1)
    return { state: { value: values[0] }, fitted: values }
  },
  predict: (_, horizon) => ({ values: new Float64Array(horizon), std: new Float64Array(horizon) }),
}

export default ending
