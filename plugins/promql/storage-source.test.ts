import type { MeasurementFields, Reader } from 'svcdb'
import type { SampleSet } from 'svcdb/lib/columns'
import t from 'tap'
import { storageDiscovery } from './discover.ts'
import { storageSource } from './storage-source.ts'

/** A storage whose every look for series takes so long. */
function slowReader(measurements: number, ms: number): Reader & { asked: number } {
  const schema = Array.from({ length: measurements }, (_, i): MeasurementFields => ({ name: `m${i}`, fields: [{ name: 'value', type: 'float64' }] }) as never)
  const look = async function (this: { asked: number }): Promise<SampleSet> {
    reader.asked++
    for (const end = performance.now() + ms; performance.now() < end; );
    return { series: new Int32Array(0), tags: { keys: () => [] }, groups: [], async *blocks() {} } as never
  }
  const reader = { asked: 0, schema: () => schema, samples: look, activeSeries: look }
  return reader as never
}

t.test('who cancels is heard between one metric and the next', async (t) => {
  const all = { name: '__name__', op: '=~', value: '.+' } as const
  const ways = {
    samples: (reader: Reader, signal: AbortSignal): Promise<unknown> =>
      storageSource(reader, 'default', signal, 1e6).select({ matchers: [all], after: 0, upTo: 1 }),
    labels: (reader: Reader, signal: AbortSignal): Promise<unknown> =>
      storageDiscovery(reader, 'default').labelNames({ selectors: [[all]], start: 0, end: 1, limit: 9, signal }),
    counts: (reader: Reader, signal: AbortSignal): Promise<unknown> => storageDiscovery(reader, 'default').counts(9, signal),
  }
  for (const [way, run] of Object.entries(ways)) {
    const reader = slowReader(500, 2)
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 10)
    await t.rejects(run(reader, controller.signal), { name: 'QueryStoppedError' }, way)
    t.ok(reader.asked < 100, way)
  }
})

t.test('who cancels is heard between one selector and the next', async (t) => {
  const one = { name: '__name__', op: '=', value: 'm0' } as const
  const reader = slowReader(1, 2)
  Object.assign(reader, { aggregate: reader.samples })
  const many = async (select: () => Promise<unknown>): Promise<void> => {
    for (let i = 0; i < 200; i++) await select()
  }
  for (const way of ['select', 'aggregate'] as const) {
    const controller = new AbortController()
    const source = storageSource(reader, 'default', controller.signal, 1e6)
    reader.asked = 0
    setTimeout(() => controller.abort(), 10)
    await t.rejects(
      many(async () =>
        way === 'select' ? source.select({ matchers: [one], after: 0, upTo: 1 }) : source.aggregate?.({ matchers: [one], after: 0, upTo: 1 } as never),
      ),
      { name: 'QueryStoppedError' },
      way,
    )
    t.ok(reader.asked < 100, way)
  }
})
