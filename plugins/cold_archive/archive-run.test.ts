import type { ArchiveResult, ArchiveService, Svc } from 'svcdb'
import t from 'tap'
import { runArchive } from './archive-run.ts'
import type { ColdArchiveConfig } from './config.ts'
import type { ArchiveMetrics } from './metrics.ts'

/** What one run with this result logs. */
async function logged(result: Partial<ArchiveResult>): Promise<string[]> {
  const lines: string[] = []
  const log = { info: (_counts: object, text: string) => void lines.push(text), error: () => {} } as unknown as Svc['log']
  const counter = { inc() {} }
  const metrics = { runs: counter, objects: counter, rows: counter, awaitingRollup: counter, incomplete: counter } as unknown as ArchiveMetrics
  const config = { cold_after_secs: 1, max_objects_per_run: 8, interval_secs: 3600 } as ColdArchiveConfig
  const run = async () => ({ objects: 0, rows: 0, awaitingRollup: 0, incomplete: 0, ...result })
  await runArchive({ run } as unknown as ArchiveService, config, metrics, log)
  return lines
}

t.test('a run says what it left local, and why', async (t) => {
  const shared = 'tables with days past cold_after_secs keep them local while files that hold newer data reach into them'
  const rollups = 'tables keep theirs local while a rollup still needs them'
  t.same(await logged({}), [], 'nothing was due')
  t.same(await logged({ objects: 2, rows: 10 }), ['archived old data'])
  t.same(await logged({ incomplete: 3 }), [`archived nothing; 3 ${shared}`])
  t.same(await logged({ objects: 1, incomplete: 3, awaitingRollup: 1 }), [`archived old data; 3 ${shared}; 1 ${rollups}`])
})
