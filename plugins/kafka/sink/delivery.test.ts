import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { Delivery, type DeliveryOptions } from './delivery.ts'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

t.test('sends leave nothing behind', async (t) => {
  const counter = { inc() {} }
  const delivery = new Delivery({
    sink: 'one',
    signal: new AbortController().signal,
    clock: { monotonic: () => 0 },
    metrics: { records: counter, bytes: counter, retries: counter },
    open: async () => ({ send: async () => {}, close: async () => {} }),
  } as unknown as DeliveryOptions)
  const record = { topic: 't', key: Buffer.from('k'), value: Buffer.from('v'), headers: {} }
  const held = async (sends: number): Promise<number> => {
    for (let i = 0; i < sends; i++) await delivery.deliver([record], { max_batch_bytes: 1e6, max_message_bytes: 1e6 })
    gc()
    return process.memoryUsage().heapUsed
  }
  const growths: number[] = []
  let before = await held(20_000)
  for (let round = 0; round < 5; round++) {
    const after = await held(20_000)
    growths.push(after - before)
    before = after
  }
  // What is compiled meanwhile is held or given back, too, but not in each round.
  const [, , median] = growths.sort((one, other) => one - other)
  t.ok(median < 20_000 * 20, `${growths} bytes more are held after 20,000 sends each`)
})
