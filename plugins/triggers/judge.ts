/** Judges the rows of one change: which triggers fire for which points. Pure but for the memory of cooldowns; the work yields where it may be interrupted. */

import type { Rows } from './evaluate/evaluator.ts'
import { RUN_ROWS } from './evaluate/scratch.ts'
import { eventId, type Signal, severityOf, signalCondition, signalTags, sizeOf, type Thresholds } from './signal.ts'
import type { Pending, Tenant, Watch } from './tenant.ts'

/** Pairs of a row and a trigger that one run may find. A row alone finds at most one for each trigger. */
const MAX_PAIRS = 65_536
/** Signals that wait for one commit, with those of composites that they may complete. */
const MAX_PENDING = 1000
/** Characters of their tags and conditions: a commit makes texts of them in one turn. */
const MAX_PENDING_SIZE = 1_048_576
/** Pairs between two yields. */
const PAIRS = 256
/** Characters of tags between two yields: those of a signal are read several times. */
const SIZE = 131_072

/** Rows as a change cursor has them. */
export interface Changed extends Rows {
  measurement: string
  position: string
  backfill: boolean
  /** Read from the store: when they were written is not known. */
  stored?: true
  times: Int32Array
}

export interface JudgeCounts {
  silent: number
  forgotten: number
}

interface JudgeOptions {
  thresholds: Thresholds
  /** Of the tags of one signal. */
  tagBytes: number
  counts: JudgeCounts
}

/**
 * @param from the first row that is not judged yet. @returns the row to go on with after a commit: `change.rows` when all are judged, less when enough signals
 * wait in `pending`.
 */
export function* judge(tenant: Tenant, watch: Watch, change: Changed, from: number, pending: Pending, options: JudgeOptions): Generator<void, number, void> {
  const { triggers, evaluator } = watch
  const isOn = (i: number): boolean => triggers[i].enabled && triggers[i].alive && change.position > triggers[i].after
  if (!triggers.some((_, i) => isOn(i))) return change.rows
  let row = from
  let step = RUN_ROWS
  const most = Math.max(MAX_PAIRS, triggers.length)
  try {
    while (row < change.rows) {
      const to = Math.min(change.rows, row + step)
      if (!(yield* evaluator.run(change, row, to, isOn, most))) {
        step = Math.max(1, (to - row) >> 1)
        continue
      }
      const stopped = yield* fire(tenant, watch, change, row, pending, options)
      if (stopped !== undefined) return stopped
      row = to
      yield
    }
    return change.rows
  } finally {
    evaluator.end()
  }
}

/** Goes through the pairs of a run in the order of rows. @returns the row to go on with, if enough signals wait. */
function* fire(
  tenant: Tenant,
  { triggers, evaluator }: Watch,
  change: Changed,
  from: number,
  pending: Pending,
  { thresholds, tagBytes, counts }: JudgeOptions,
): Generator<void, number | undefined, void> {
  const { times, series } = change
  let last = -1
  let size = 0
  for (let k = 0; k < evaluator.found; k++) {
    const pair = evaluator.pairs[k]
    const row = from + Math.floor(pair / triggers.length)
    if (row !== last && isEnough(pending)) return row
    last = row
    const at = pair % triggers.length
    const trigger = triggers[at]
    if (k % PAIRS === PAIRS - 1 || size >= SIZE) {
      size = 0
      yield
    }
    if (!trigger.alive || !trigger.enabled) continue
    const [low, high] = [times[row * 2], times[row * 2 + 1]]
    if (change.stored && ((BigInt(high) << 32n) | BigInt(low >>> 0)) < trigger.since) continue
    let tags: Record<string, string> | undefined
    const tagsOf = (): Record<string, string> => {
      if (tags === undefined) {
        tags = change.tagsOf(series[row])
        for (const key in tags) size += tags[key].length
      }
      return tags
    }
    const judgement = tenant.cooldowns.judge(trigger, series[row], low, high, tagsOf, pending.changes)
    if (judgement === 'silent') counts.silent++
    else if (judgement === 'forgotten') counts.forgotten++
    else {
      const timestamp = String((BigInt(high) << 32n) | BigInt(low >>> 0))
      const value = evaluator.valueOf(at, row)
      const { tags: shown, omitted } = signalTags(tagsOf(), tagBytes, () => tenant.composites.tagsFor(trigger.name))
      const signal: Signal = {
        event_id: eventId(trigger.id, tagsOf(), timestamp),
        trigger_id: trigger.id,
        trigger_name: trigger.name,
        measurement: trigger.measurement,
        tags: shown,
        timestamp,
        severity: severityOf(value, thresholds),
        value,
        metadata: {
          sequence: 0,
          condition: signalCondition(trigger.conditionText),
          ...(change.backfill ? { backfill: true as const } : {}),
          ...(omitted === 0 ? {} : { tags_omitted: omitted }),
        },
      }
      pending.signals.push(signal)
      const composites = tenant.composites.countOf(trigger.name)
      pending.weight += 1 + composites
      pending.size += sizeOf(signal) * (1 + composites)
    }
  }
  return undefined
}

/** Whether what waits is to be committed before more is judged. */
export const isEnough = ({ weight, size }: Pending): boolean => weight >= MAX_PENDING || size >= MAX_PENDING_SIZE
