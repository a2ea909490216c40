/** What a decode is told and what it answers. */
import type { Rejection, SeriesExemplar } from 'svcdb'

export interface DecodeOptions {
  /** Data points above these end the decode. */
  maxPoints: number
  /** Failures kept with their text; the others are counted. */
  maxFailures: number
  /** Exemplars are read; otherwise they are counted. */
  exemplars?: boolean
}

export interface Outcome {
  /** Data points in the request. */
  points: number
  /** Gauge and sum points that are taken and not stored: their value is not finite, or there is none. */
  skipped: number
  refused: number
  exemplars: number
  /** Those of them that were read, of points that were taken. */
  found: SeriesExemplar[]
  /** Texts of the labels of their series. */
  foundLabels: number
  /** Values that are not finite, and staleness markers. */
  nonFinite: number
  /** Positions are places of data points among all of the request, from 0. */
  failures: Rejection[]
  /** The metrics of the request, each with the place of its first point. */
  metrics: { position: number; name: string }[]
}
