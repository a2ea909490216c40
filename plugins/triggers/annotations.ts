/** Annotations: marks for graphs, out of signals and of rows of measurements that others keep signals in. */
import type { Signal } from './signal.ts'
import { millisOf } from './signal.ts'

export interface Annotation {
  text: string
  /** Milliseconds since the Unix epoch. */
  time: number
  tags: string[]
}

/** Whether rows of a measurement are annotations. */
export function isAnnotated(measurement: string): boolean {
  return measurement.startsWith('_signals') || measurement.startsWith('_alerts')
}

export function ofSignal({ trigger_name, value, measurement, severity, tags, timestamp }: Signal): Annotation {
  const pairs = Object.entries(tags).map(([key, each]) => `${key}=${each}`)
  return { text: `${trigger_name}: ${value}`, time: millisOf(timestamp), tags: [measurement, trigger_name, severity, ...pairs] }
}

export function ofRow(measurement: string, time: number): Annotation {
  return { text: `Signal event in ${measurement}`, time, tags: [measurement] }
}
