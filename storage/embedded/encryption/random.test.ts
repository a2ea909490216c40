/** The same random operations on an engine that encrypts every field and on the oracle: as in the conformance suite, over crashes. */
import t from 'tap'
import { FIELDS, randomConfig, randomRun } from '../../conformance/random.ts'
import { embedded, RESTLESS } from '../testing/conformance-engine.ts'

process.env.SVC_TEST_RANDOM_KEY = Buffer.alloc(32, 3).toString('base64')
const settings = { ...RESTLESS, field_encryption: { columns: Object.fromEntries(FIELDS.map((field) => [field, 'k'])), keys: { k: 'SVC_TEST_RANDOM_KEY' } } }

/** The budget of series has rules of its own, which have nothing to do with encryption. */
const CONFIG = { ...randomConfig, max_series_cardinality: 1_000_000 }

const make = embedded(settings, 'crashed', (engine) => {
  const plain = engine.measurements.bind(engine)
  // The oracle has no encrypted fields.
  engine.measurements = async (namespace) =>
    (await plain(namespace)).map((info) => ({ ...info, fields: info.fields.map(({ encrypted: _, ...field }) => field) }))
})

t.setTimeout(300_000)
const { SVC_SEED, SVC_SEEDS, SVC_STEPS } = process.env
const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS ?? 2) }, (_, i) => 7000 + i) : [Number(SVC_SEED)]
for (const seed of seeds) {
  t.test(`SVC_SEED=${seed}`, { timeout: 300_000 }, async (t) => {
    const { points, compared } = await randomRun(make, seed, Number(SVC_STEPS ?? 60), CONFIG)
    t.ok(points > 0 && compared > 0, `${points} points written, ${compared} rows compared`)
  })
}
