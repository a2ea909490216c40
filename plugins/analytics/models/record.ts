/**
 * A model's record: its definition and its versions. Pure.
 *
 * Invariants: versions count from 1 and are never used again; there is one Champion at most, and one Challenger at most: what takes the place of either makes it
 * Retired; of the Retired the oldest go.
 */
import type { Accuracy, Trained } from './compute.ts'
import type { Definition } from './definition.ts'

/** Fewest samples that errors are judged by, and that a Champion and another version are compared on. */
export const LEAST_COMPARED = 5
/** Steps behind a training that a version is followed over. */
export const MOST_STEPS = 4_000_000

type Tag = 'Champion' | 'Challenger' | 'Retired'

/** Numbers that are not finite are null: it is kept as JSON. */
interface KeptAccuracy {
  points: number
  mse: number | null
  rmse: number | null
  mae: number | null
  mape: number | null
  r_squared: number | null
}

/** Times are nanoseconds as decimal text. */
export interface Version {
  version: number
  tag: Tag
  kind: string
  algorithm: string
  hyperparameters: Record<string, string>
  training_start: string
  training_end: string
  interval: string
  training_points: number
  bridged: number
  /** Samples of the range that were left out because there were more than may be used. */
  left_out: number
  /** One step ahead, within the training. */
  metrics: KeptAccuracy
  /** One step ahead, on what came after; absent until something has. */
  after?: KeptAccuracy
  /** Milliseconds since the Unix epoch. */
  created_at: number
  /** SHA-256 of its state. */
  checksum: string
  candidates?: { name: string; score?: number | null; reason?: string }[]
}

export interface KeptModel {
  definition: Definition
  created_at: number
  next_version: number
  versions: Version[]
  /**
   * A training that was asked for and has not been done: when that was, milliseconds since the Unix epoch, and more than what stood here before: asked for while one is
   * under way, it is another. `true` in records of before.
   */
  retrain?: number | true
  drift_score?: number
  /** Milliseconds since the Unix epoch: when its forecast was written last, and when drift was found to be no reason for another model. */
  forecast_at?: number
  refit_at?: number
  /** Up to where scores, and forecasts, were written, nanoseconds as decimal text. */
  scored_until?: string
  written_until?: string
  /** The newest sample that was looked at, nanoseconds as decimal text. */
  looked_until?: string
  last_error?: string
}

function keptAccuracy(of: Accuracy): KeptAccuracy {
  const finite = (v: number): number | null => (Number.isFinite(v) ? v : null)
  return { points: of.points, mse: finite(of.mse), rmse: finite(of.rmse), mae: finite(of.mae), mape: finite(of.mape), r_squared: finite(of.r_squared) }
}

export const championOf = ({ versions }: KeptModel): Version | undefined => versions.find(({ tag }) => tag === 'Champion')
export const challengerOf = ({ versions }: KeptModel): Version | undefined => versions.find(({ tag }) => tag === 'Challenger')

/** The record with a version that was just trained: the Champion where there is none or it is to be, else the Challenger. @returns numbers of versions that are gone. */
export function withVersion(
  model: KeptModel,
  trained: Trained,
  { checksum, now, found, most, asChampion }: { checksum: string; now: number; found: number; most: number; asChampion: boolean },
): { model: KeptModel; version: Version; gone: number[] } {
  const tag: Tag = asChampion || championOf(model) === undefined ? 'Champion' : 'Challenger'
  const version: Version = {
    ...{ version: model.next_version, tag, kind: trained.state.kind, algorithm: trained.algorithm },
    hyperparameters: Object.fromEntries(Object.entries(model.definition.parameters).map(([name, value]) => [name, JSON.stringify(value)])),
    ...{ training_start: String(trained.start), training_end: String(trained.end), interval: String(trained.interval) },
    ...{ training_points: trained.points, bridged: trained.bridged, left_out: Math.max(0, found - trained.points) },
    ...{ metrics: keptAccuracy(trained.accuracy), created_at: now, checksum },
    ...(trained.candidates === undefined
      ? {}
      : {
          candidates: trained.candidates.map((each) => ({
            ...each,
            ...(each.score === undefined ? {} : { score: Number.isFinite(each.score) ? each.score : null }),
          })),
        }),
  }
  // Who is promoted is alone: what it was compared with, and what waited to be, are of before.
  const before = model.versions.map((each) => (tag === 'Champion' || each.tag === 'Challenger' ? { ...each, tag: 'Retired' as const } : each))
  const { versions, gone } = bounded([...before, version], most)
  return { model: { ...model, next_version: model.next_version + 1, versions }, version, gone }
}

/** After a look at the newest samples. @param newest time of the last of them. @param accuracies on what came after the training, by version. */
export function withLook(
  model: KeptModel,
  { newest, drift, accuracies }: { newest: bigint | undefined; drift: number | undefined; accuracies: ReadonlyMap<number, Accuracy> },
): KeptModel {
  const versions = model.versions.map((each) => {
    const accuracy = accuracies.get(each.version)
    return accuracy === undefined || accuracy.points === 0 ? each : { ...each, after: keptAccuracy(accuracy) }
  })
  return {
    ...model,
    ...(newest === undefined ? {} : { looked_until: String(newest) }),
    ...(drift === undefined ? {} : { drift_score: drift }),
    versions,
  }
}

/** A training is asked for. */
export function withAsked(model: KeptModel, now: number): KeptModel {
  return { ...model, retrain: Math.max(Number(model.retrain ?? 0) + 1, now) }
}

/** A training is done. @param asked what stood for it when it began. @returns undefined where another node was faster. */
export function withDone({ retrain, last_error: _, ...model }: KeptModel, asked: KeptModel['retrain']): KeptModel | undefined {
  if (retrain === undefined) return undefined
  return retrain === asked ? model : { ...model, retrain }
}

/** The Challenger is the Champion now. */
export function promoted(model: KeptModel): KeptModel {
  const tags: Record<Tag, Tag> = { Champion: 'Retired', Challenger: 'Champion', Retired: 'Retired' }
  return { ...model, versions: model.versions.map((each) => ({ ...each, tag: tags[each.tag] })) }
}

/** Its Challenger has lost. */
export function retired(model: KeptModel): KeptModel {
  return { ...model, versions: model.versions.map((each) => (each.tag === 'Challenger' ? { ...each, tag: 'Retired' } : each)) }
}

/**
 * By their errors on the same samples: whether the Challenger takes the Champion's place, or goes. Undefined where the difference is less than `minGain`, a part of the
 * Champion's error: a change would be for nothing, and what comes may still tell them apart.
 */
export function verdict(champion: number, challenger: number, minGain: number): 'wins' | 'loses' | undefined {
  if (challenger < champion * (1 - minGain)) return 'wins'
  return challenger > champion * (1 + minGain) ? 'loses' : undefined
}

function bounded(versions: Version[], most: number): { versions: Version[]; gone: number[] } {
  const gone: number[] = []
  while (versions.length - gone.length > most) {
    const oldest = versions.find(({ tag, version }) => tag === 'Retired' && !gone.includes(version))
    if (oldest === undefined) break
    gone.push(oldest.version)
  }
  return { versions: versions.filter(({ version }) => !gone.includes(version)), gone }
}
