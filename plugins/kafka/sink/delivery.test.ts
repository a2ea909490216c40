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
  const before = await held(1000)
  const more = (await held(20_000)) - before
  t.ok(more < 20_000 * 20, `${more} bytes are held after 20,000 sends`)
})
