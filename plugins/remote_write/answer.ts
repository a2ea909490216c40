/** How a write is answered: counts of what was written of each kind, and what was refused. Pure. */
import { partialWrite, type WriteResult } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import type { Failure, Outcome } from './outcome.ts'

/** What the storage did with the rows of a batch that had none. */
export const NOTHING_WRITTEN: WriteResult = { written: 0, rejected: 0, rejections: [] }

interface Tally {
  samples: number
  histograms: number
  /** Samples and histograms that were refused. */
  rejected: number
}

/** Samples and histograms as they were sent, whatever rows they became. */
export function tallyOf(outcome: Outcome, floats: WriteResult, histograms: WriteResult): Tally {
  const { samplesAsHistograms, histogramsAsSamples } = outcome
  return {
    samples: floats.written + samplesAsHistograms - histogramsAsSamples + outcome.skippedSamples,
    histograms: histograms.written + histogramsAsSamples - samplesAsHistograms + outcome.skippedHistograms,
    rejected: outcome.refusedSamples + outcome.refusedHistograms + floats.rejected + histograms.rejected,
  }
}

/** The headers of version 2: senders compare them with what they sent. @param exemplars that are said to be written. */
export function writtenHeaders({ samples, histograms }: Tally, exemplars = 0): Record<string, string> {
  return {
    'x-prometheus-remote-write-samples-written': String(Math.max(0, samples)),
    'x-prometheus-remote-write-histograms-written': String(Math.max(0, histograms)),
    'x-prometheus-remote-write-exemplars-written': String(exemplars),
  }
}

/** Undefined when all was written. A 400, so that nobody sends it again: what could be stored has been. */
export function refusal(outcome: Outcome, floats: WriteResult, histograms: WriteResult, tally: Tally): SvcError | undefined {
  if (tally.rejected === 0) return undefined
  const failures: Failure[] = [...outcome.failures, ...floats.rejections, ...histograms.rejections].sort((a, b) => a.position - b.position)
  const texts = { place: (position: number) => `timeseries[${position}]`, counted, senderRepeats: true as const, detail: { reasons: reasonsOf(failures) } }
  return partialWrite({ written: tally.samples + tally.histograms, rejected: tally.rejected, rejections: failures }, texts)
}

/** Different texts only: a batch mostly fails for one reason. */
function reasonsOf(failures: readonly Failure[]): string[] {
  const reasons = new Map<string, string>()
  for (const { position, message } of failures) if (!reasons.has(message)) reasons.set(message, `timeseries[${position}]: ${message}`)
  return [...reasons.values()]
}

function counted(samples: number): string {
  return samples === 1 ? '1 sample' : `${samples} samples`
}
