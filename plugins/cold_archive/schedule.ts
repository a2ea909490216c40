/** Runs of the archive one after the other, an interval apart. */
import type { ArchiveResult, ArchiveService, Svc } from 'svcdb'
import type { ColdArchiveConfig } from './config.ts'
import type { ArchiveMetrics } from './metrics.ts'

export class Schedule {
  private readonly archive: ArchiveService
  private readonly config: ColdArchiveConfig
  private readonly metrics: ArchiveMetrics
  private readonly log: Svc['log']
  private timer: NodeJS.Timeout | undefined
  private stopped = false

  constructor(archive: ArchiveService, config: ColdArchiveConfig, metrics: ArchiveMetrics, log: Svc['log']) {
    this.archive = archive
    this.config = config
    this.metrics = metrics
    this.log = log
  }

  /** The first run begins at once: a server that is restarted often archives too. */
  start(): void {
    void this.run().then(() => {
      if (!this.stopped) this.timer = setTimeout(() => this.start(), this.config.interval_secs * 1000).unref()
    })
  }

  /** No more runs. A run under way goes on until the storage closes. */
  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
  }

  private async run(): Promise<void> {
    const { metrics, config, log } = this
    const result = await this.archive
      .run({ coldAfterSecs: config.cold_after_secs, maxObjects: config.max_objects_per_run })
      .catch((failure: Error): ArchiveResult => ({ objects: 0, rows: 0, awaitingRollup: 0, incomplete: 0, failure }))
    metrics.objects.inc(result.objects)
    metrics.rows.inc(result.rows)
    metrics.awaitingRollup.inc(result.awaitingRollup)
    metrics.incomplete.inc(result.incomplete)
    metrics.runs.inc({ result: result.failure === undefined ? 'done' : 'failed' })
    const { failure, ...counts } = result
    if (failure !== undefined && !this.stopped) log.error({ err: failure, ...counts }, 'cannot archive what is due; it stays local until a later run')
    else if (result.objects + result.incomplete + result.awaitingRollup > 0) log.info(counts, report(result))
  }
}

/** Also of a run that moved nothing though something is old enough: nobody looks for the reason in metrics first. */
function report({ objects, incomplete, awaitingRollup }: ArchiveResult): string {
  const parts = [objects > 0 ? 'archived old data' : 'archived nothing']
  if (incomplete > 0) parts.push(`${incomplete} tables with days past cold_after_secs keep them local while files that hold newer data reach into them`)
  if (awaitingRollup > 0) parts.push(`${awaitingRollup} tables keep theirs local while a rollup still needs them`)
  return parts.join('; ')
}
