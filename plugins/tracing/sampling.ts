/** Which operations are recorded: decided once, when they begin, and by the node alone unless it is told to follow its callers. */
import { type RemoteParent, remoteParent, type TraceContext } from 'svcdb/lib/trace'
import type { TracingConfig } from './config.ts'

type SamplingConfig = Pick<TracingConfig, 'sampling' | 'ratio' | 'parent'>

interface Sampled {
  /** The caller's span, where the trace goes on from it. */
  parent: RemoteParent | undefined
}

/**
 * Chance, and not the trace's id as OpenTelemetry's own sampler has it: the id is the caller's, who could choose those that are always recorded.
 * @param random from 0 to below 1. @returns undefined = not recorded.
 */
export function sample({ sampling, ratio, parent }: SamplingConfig, from: TraceContext, random: () => number): Sampled | undefined {
  if (parent === 'follow') {
    const remote = remoteParent(from)
    if (remote !== undefined) return remote.sampled ? { parent: remote } : undefined
  }
  if (sampling === 'always_off' || (sampling === 'ratio' && random() >= ratio)) return undefined
  return { parent: parentOf({ parent }, from) }
}

export function parentOf({ parent }: Pick<SamplingConfig, 'parent'>, from: TraceContext): RemoteParent | undefined {
  return parent === 'ignore' ? undefined : remoteParent(from)
}
