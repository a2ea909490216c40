/** What a decode is told and what it answers. */
import type { SeriesExemplar } from 'svcdb'

export interface DecodeOptions {
  /** Samples and histograms above this end the decode. */
  maxSamples: number
  /** Failures kept with their text; the others are counted. */
  maxFailures: number
  /** Floats and histograms under one name are both stored. */
  keepBoth: boolean
  /** NaN, infinities and staleness markers are counted and left out. */
  skipNonFinite?: boolean
  /** Exemplars are read; otherwise they are counted. */
  exemplars?: boolean
}

export interface Failure {
  /** Place of the series in the request's `timeseries`. */
  position: number
  code: string
  message: string
}

export interface Outcome {
  /** Rows in the batch of floats and in that of histograms. */
  floatRows: number
  histogramRows: number
  /** Staleness markers sent as floats that became rows of histograms, and the other way round. */
  samplesAsHistograms: number
  histogramsAsSamples: number
  /** Not finite, and left out: taken all the same. */
  skippedSamples: number
  skippedHistograms: number
  refusedSamples: number
  refusedHistograms: number
  exemplars: number
  /** Those of them that were read. */
  found: SeriesExemplar[]
  /** Memory that the labels of their series take, about. */
  foundCharacters: number
  /** Samples that are NaN, infinite or staleness markers. */
  nonFinite: number
  failures: Failure[]
}
