/** Nodes that share their state, each with points of its own: each makes checkpoints of them. */
import type { BackupService } from 'svcdb'
import { boot, SharedState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'

/** @returns where the node has made backups. */
async function peer(t: Test, shared: SharedState): Promise<string[]> {
  const made: string[] = []
  const backup: BackupService = {
    root: '/backups',
    directories: { resolve: async (path) => path, list: async () => [], remove: async () => {} },
    create: async (directory) => {
      made.push(directory)
      return { version: 1, createdAt: 0, files: 0, bytes: 0, statistics: {} }
    },
    verify: () => Promise.reject(new Error('not asked for')),
    restore: () => Promise.reject(new Error('not asked for')),
  }
  const engine = await shared.engine()
  const storage = Object.assign(engine, { capabilities: new Set([...engine.capabilities, 'backup']), backup })
  const node = await boot({ plugins: ['backup'], storage, config: { database: { checkpoints: { interval_secs: 1 } } } })
  t.teardown(() => node.stop())
  return made
}

t.test('each node makes checkpoints of its own points', async (t) => {
  const shared = new SharedState()
  const nodes = [await peer(t, shared), await peer(t, shared)]
  await until('both have made some', () => nodes.every(({ length }) => length >= 2))
})
