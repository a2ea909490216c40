/** How data goes: deletes, drops and retention. The rules are those of `../common/retention.ts`; here they meet the maps. */
import type { DeleteRequest, RetentionHold } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import type { Limits } from '../common/limits.ts'
import { compileMatchers } from '../common/matchers.ts'
import {
  type AdmissionCutoffs,
  admissionCutoffs,
  deadlinePassed,
  dropDeadline,
  KEPT_ENDED_DROPS,
  measurementCutoff,
  nothingToRestore,
  type RetentionSettings,
  restoreConflict,
  retentionClock,
  unknownMeasurement,
} from '../common/retention.ts'
import { INT64_MIN, later } from '../common/time.ts'
import type { Measurement, Series, SeriesTable } from './series.ts'

interface Surroundings {
  resolver: SeriesTable
  limits: Limits
  settings: RetentionSettings
  now(): number
  /** Newest admitted time of each namespace. */
  newest(): (bigint | undefined)[]
  openBatches: ReadonlySet<WriteBatch>
  /** The last measurement of a namespace is gone for good. */
  emptied(namespace: string): void
}

export class Removal {
  private readonly around: Surroundings
  private readonly holds = new Set<RetentionHold>()
  /** Pending drops, oldest first. */
  private pending: { measurement: Measurement; deadline: bigint }[] = []
  /** Names whose drop can no longer be undone, oldest first. */
  private readonly ended = new Set<string>()

  constructor(around: Surroundings) {
    this.around = around
  }

  /** Applies what time has brought about since the last call: ends drops, removes rows that retention no longer keeps. */
  settle(): void {
    const clock = this.clock()
    const passed = this.pending.filter((drop) => deadlinePassed(drop.deadline, clock))
    this.pending = this.pending.filter((drop) => !passed.includes(drop))
    for (const { measurement } of passed) this.end(measurement)
    const { retentionSecs, retention } = this.around.settings
    if (retentionSecs > 0 || retention.size > 0) this.expire(clock)
  }

  /** First times that a write may carry. */
  get cutoffs(): AdmissionCutoffs {
    const { settings, limits } = this.around
    return admissionCutoffs(settings, limits, this.clock())
  }

  /** The series that matched, after their points are gone; none for an empty range. */
  delete({ namespace, measurement: name, matchers = [], start, end }: DeleteRequest): Series[] {
    const measurement = this.existing('delete', namespace, name)
    const matches = compileMatchers(matchers, this.around.limits.regexTimeoutMs)
    const matched = [...measurement.series].filter(([, s]) => s.live && matches((key) => (Object.hasOwn(s.tags, key) ? s.tags[key] : undefined)))
    if (start !== undefined && end !== undefined && start >= end) return []
    if (start === undefined && end === undefined) {
      this.around.resolver.forget(matched, this.around.openBatches)
    } else {
      for (const [, series] of matched) keepPoints(series, (time) => (start !== undefined && time < start) || (end !== undefined && time >= end))
    }
    return matched.map(([, series]) => series)
  }

  drop(namespace: string, name: string, final: boolean): void {
    const measurement = this.existing('drop', namespace, name)
    this.around.resolver.detach(measurement)
    const ttlSecs = final ? undefined : this.around.settings.softDeleteTtlSecs
    const deadline = dropDeadline(this.around.now(), this.around.newest(), ttlSecs)
    if (deadlinePassed(deadline, this.clock())) this.end(measurement)
    else this.pending.push({ measurement, deadline })
  }

  restore(namespace: string, name: string): void {
    const newest = this.pending.findLast(({ measurement: m }) => m.namespace === namespace && m.name === name)
    if (newest === undefined) throw nothingToRestore(name, this.around.settings, this.ended.has(endedKey(namespace, name)))
    if (this.around.resolver.existing(namespace, name) !== undefined) throw restoreConflict(name)
    this.around.resolver.attach(newest.measurement)
    this.pending = this.pending.filter((drop) => drop !== newest)
  }

  hold(hold: RetentionHold): () => void {
    // A function of its own a call: the same hold may be given twice.
    const own: RetentionHold = (namespace, measurement, cutoff) => hold(namespace, measurement, cutoff)
    this.holds.add(own)
    return () => void this.holds.delete(own)
  }

  private existing(verb: string, namespace: string, name: string): Measurement {
    const measurement = this.around.resolver.existing(namespace, name)
    if (measurement === undefined) throw unknownMeasurement(verb, name)
    return measurement
  }

  private end(measurement: Measurement): void {
    this.around.resolver.releaseAll(measurement)
    const { namespace } = measurement
    if (this.around.resolver.measurementsOf(namespace) === 0 && !this.pending.some((drop) => drop.measurement.namespace === namespace))
      this.around.emptied(namespace)
    const key = endedKey(measurement.namespace, measurement.name)
    this.ended.delete(key)
    this.ended.add(key)
    if (this.ended.size > KEPT_ENDED_DROPS) for (const oldest of [...this.ended].slice(0, -KEPT_ENDED_DROPS)) this.ended.delete(oldest)
  }

  private expire(clock: bigint): void {
    const { resolver, limits, settings, openBatches } = this.around
    const emptied: [string, Series][] = []
    for (const namespace of resolver.allNamespaces()) {
      for (const measurement of resolver.list(namespace)) {
        const cutoff = measurementCutoff(settings, limits, clock, namespace, measurement.name, this.holds)
        if (cutoff === INT64_MIN) continue
        for (const entry of measurement.series) {
          if (!keepPoints(entry[1], (time) => time >= cutoff)) continue
          measurement.takenBefore = later(measurement.takenBefore ?? cutoff, cutoff)
          if (entry[1].points.size === 0) emptied.push(entry)
        }
      }
    }
    if (emptied.length > 0) resolver.forget(emptied, openBatches)
  }

  private clock(): bigint {
    return retentionClock(this.around.now(), this.around.newest())
  }
}

/** @returns whether a point is gone. */
function keepPoints(series: Series, keep: (time: bigint) => boolean): boolean {
  const kept = [...series.points].filter(([time]) => keep(time))
  if (kept.length === series.points.size) return false
  series.points = new Map(kept)
  series.shared = false
  return true
}

function endedKey(namespace: string, name: string): string {
  return `${namespace}\0${name}`
}
