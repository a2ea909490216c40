/** Nodes that share their state, each with points of its own: each archives them. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ArchiveService } from 'svcdb'
import { boot, SharedState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'

/** @returns how often the node's engine was asked to archive what is due. */
async function peer(t: Test, shared: SharedState): Promise<() => number> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cold-nodes-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let runs = 0
  const archive: ArchiveService = {
    attach() {},
    run: async () => {
      runs++
      return { objects: 0, rows: 0, awaitingRollup: 0, incomplete: 0 }
    },
  }
  const engine = await shared.engine()
  const storage = Object.assign(engine, { capabilities: new Set([...engine.capabilities, 'archive']), archive })
  const node = await boot({ plugins: ['cold_archive'], storage, config: { cold_archive: { remote_url: folder, interval_secs: 1 } } })
  t.teardown(() => node.stop())
  return () => runs
}

t.test('each node archives its own points', async (t) => {
  const shared = new SharedState()
  const nodes = [await peer(t, shared), await peer(t, shared)]
  await until('both have run', () => nodes.every((runs) => runs() >= 2))
})
