/** A kind of model whose fit says that it has begun, and takes some seconds. */
import type { ModelKind } from 'svcdb'

export const BEGUN = 'svc-test-fit-begun'
const FIT_MS = 2000

const slow: ModelKind = {
  fit(values) {
    const channel = new BroadcastChannel(BEGUN)
    channel.postMessage('begun')
    channel.close()
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FIT_MS)
    return { state: { last: values[values.length - 1] }, fitted: values }
  },
  predict: (_, horizon) => ({ values: new Float64Array(horizon), std: new Float64Array(horizon) }),
}

export default slow
