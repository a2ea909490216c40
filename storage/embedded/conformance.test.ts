import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { conformance, testContext } from '../conformance/index.ts'
import { createEngine } from './index.ts'

conformance('embedded', async (config, now) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-embedded-'))
  const make = () => createEngine(testContext({ ...config, data_dir: dir }, now))
  let engine = make()
  await engine.open()
  return {
    get engine() {
      return engine
    },
    async reopen() {
      await engine.close()
      engine = make()
      await engine.open()
      return engine
    },
    async dispose() {
      await engine.close()
      rmSync(dir, { recursive: true })
    },
  }
})
