/** The value at `time` on the line between the sample at `before` and the next one. */
export function interpolate(times: Float64Array, values: Float64Array, before: number, time: number): number {
  const from = values[before]
  return from + ((values[before + 1] - from) * (time - times[before])) / (times[before + 1] - times[before])
}
