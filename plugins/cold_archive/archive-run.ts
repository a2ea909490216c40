/** One run of the archive, counted and reported. */
import type { ArchiveResult, ArchiveService, Svc } from 'svcdb'
import type { ColdArchiveConfig } from './config.ts'
import type { ArchiveMetrics } from './metrics.ts'

/** @throws Error for what went wrong first: what it leaves stays local until a later run. */
export async function runArchive(archive: ArchiveService, config: ColdArchiveConfig, metrics: ArchiveMetrics, log: Svc['log']): Promise<void> {
  try {
    const { failure, ...counts } = await archive.run({ coldAfterSecs: config.cold_after_secs, maxObjects: config.max_objects_per_run })
    metrics.objects.inc(counts.objects)
    metrics.rows.inc(counts.rows)
    metrics.awaitingRollup.inc(counts.awaitingRollup)
    metrics.incomplete.inc(counts.incomplete)
    if (counts.objects + counts.incomplete + counts.awaitingRollup > 0) log.info(counts, report(counts))
    if (failure !== undefined) throw failure
  } catch (error) {
    metrics.runs.inc({ result: 'failed' })
    throw new Error(`cannot archive what is due; it stays local until a later run: ${(error as Error).message}`, { cause: error })
  }
  metrics.runs.inc({ result: 'done' })
}

/** Also of a run that moved nothing though something is old enough: nobody looks for the reason in metrics first. */
function report({ objects, incomplete, awaitingRollup }: Pick<ArchiveResult, 'objects' | 'incomplete' | 'awaitingRollup'>): string {
  const parts = [objects > 0 ? 'archived old data' : 'archived nothing']
  if (incomplete > 0) parts.push(`${incomplete} tables with days past cold_after_secs keep them local while files that hold newer data reach into them`)
  if (awaitingRollup > 0) parts.push(`${awaitingRollup} tables keep theirs local while a rollup still needs them`)
  return parts.join('; ')
}
