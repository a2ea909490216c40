/** The schedules of a node, by the plugin that has them: started when the node is ready, ended when it drains. */
import type { Cluster } from '../cluster/cluster.ts'
import type { Logger } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Clock } from '../plugin.ts'
import type { Tracing } from '../tracing.ts'
import { type Schedule, type ScheduledJob, type ScheduleMetrics, type ScheduleOptions, type ScheduleStatus, Timetable, type Turns } from './schedule.ts'

/** Seconds. */
const BUCKETS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600]
const NAME = /^[a-z][a-z0-9_]*$/

interface SchedulerDependencies {
  clock: Clock
  metrics: Metrics
  stopping: AbortSignal
  graceMs: number
  cluster: Cluster
  tracing: Pick<Tracing, 'operation'>
}

export class Scheduler {
  private readonly dependencies: SchedulerDependencies
  private readonly metrics: ScheduleMetrics
  private readonly all = new Map<string, Timetable>()

  constructor(dependencies: SchedulerDependencies) {
    this.dependencies = dependencies
    this.metrics = scheduleMetrics(dependencies.metrics)
  }

  of(plugin: string, log: Logger): Schedules {
    return new Schedules(
      (name, every, job, options) => this.add(plugin, log, name, every, job, options),
      (timetable) => void this.all.delete(keyOf(timetable)),
    )
  }

  /** By plugin and name. */
  list(): ScheduleStatus[] {
    return [...this.all.keys()].sort().map((key) => (this.all.get(key) as Timetable).status)
  }

  private add(plugin: string, log: Logger, name: string, every: number, job: ScheduledJob, options: ScheduleOptions): Timetable {
    const refused = (why: string) => new Error(`cannot schedule "${name}" of plugin "${plugin}": ${why}`)
    if (!NAME.test(name)) throw refused('a name is lower case letters, digits and "_", starting with a letter')
    if (!Number.isFinite(every) || every < 1) throw refused(`an interval of ${every} ms is none; it is at least 1`)
    const key = `${plugin}/${name}`
    if (this.all.has(key)) throw refused('there is one of that name already')
    const { clock, stopping, graceMs, cluster, tracing } = this.dependencies
    const traced: ScheduledJob = options.lasting ? job : (run) => tracing.operation(`schedule ${key}`, () => job(run))
    const turns = (): Turns | undefined => {
      if (options.local || !cluster.isShared) return undefined
      return {
        want: (own, more) => cluster.want(key, own, more),
        begin: (token) => cluster.beginSlot(key, token, every),
        end: (token) => cluster.endSlot(key, token),
        dueIn: () => cluster.dueIn(key, every),
      }
    }
    const timetable = new Timetable({ plugin, name, every, job: traced, options, clock, log, metrics: this.metrics, stopping, graceMs, turns })
    this.all.set(key, timetable)
    return timetable
  }
}

/** Those of one plugin. */
export class Schedules {
  private readonly make: (name: string, every: number, job: ScheduledJob, options: ScheduleOptions) => Timetable
  private readonly gone: (timetable: Timetable) => void
  private readonly own = new Set<Timetable>()
  private started = false

  constructor(make: Schedules['make'], gone: Schedules['gone']) {
    this.make = make
    this.gone = gone
  }

  add(name: string, every: number, job: ScheduledJob, options: ScheduleOptions = {}): Schedule {
    const timetable = this.make(name, every, job, options)
    this.own.add(timetable)
    if (this.started) void timetable.start()
    const stop = async () => {
      if (!this.own.delete(timetable)) return
      await timetable.stop()
      this.gone(timetable)
    }
    return { status: timetable.status, stop }
  }

  async start(): Promise<void> {
    this.started = true
    for (const timetable of this.own) await timetable.start()
  }

  /** Safe twice. */
  async stop(): Promise<void> {
    await Promise.all([...this.own].map((timetable) => timetable.stop()))
  }
}

const keyOf = ({ status }: Timetable): string => `${status.plugin}/${status.name}`

function scheduleMetrics(metrics: Metrics): ScheduleMetrics {
  const labels = ['plugin', 'schedule']
  const runs = metrics.counter('schedule_runs_total', 'Scheduled runs, by result: done, failed, or elsewhere (another process did it)', [...labels, 'result'])
  const duration = metrics.histogram('schedule_run_duration_seconds', 'Duration of scheduled runs that were done or failed', labels, BUCKETS)
  const success = metrics.gauge('schedule_last_success_timestamp_seconds', 'Time at which a scheduled run was done last, seconds since the Unix epoch', labels)
  return {
    ran(plugin, schedule, result, seconds, now) {
      runs.inc({ plugin, schedule, result })
      if (result !== 'elsewhere') duration.observe({ plugin, schedule }, seconds)
      if (result === 'done') success.set({ plugin, schedule }, now / 1000)
    },
  }
}
