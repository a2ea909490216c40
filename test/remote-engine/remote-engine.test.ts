/** The storage interface, served from elsewhere. */
import { conformance, testContext } from 'svcdb/conformance'
import t from 'tap'
import { RemoteEngine } from './engine.ts'

const seed = Number(process.env.SVC_SEED ?? 41)
t.comment(`SVC_SEED=${seed}`)

conformance(
  'remote',
  async (config, now) => {
    const engine = new RemoteEngine(testContext(config, now), seed)
    await engine.open()
    return { engine, dispose: () => engine.close() }
  },
  { resolvesLate: true },
)
