import { conformance, testContext } from '../conformance/index.ts'
import { createEngine } from './index.ts'

conformance('memory', async (config, now) => {
  const engine = createEngine(testContext(config, now))
  await engine.open()
  return { engine, dispose: () => engine.close() }
})
