/** Runs beside the data. */
import type { Job } from 'svcdb'

export interface DewPoint {
  room: string
  dewPoint: number
}

const highest: Job<{ namespace: string; measurement: string }, DewPoint[]> = async (reader, { namespace, measurement }) => {
  const from = `"${measurement.replaceAll('"', '""')}"`
  const cursor = await reader.sql({ namespace, query: `SELECT room, max(dew_point(temperature, humidity)) FROM ${from} GROUP BY room ORDER BY room` })
  const found: DewPoint[] = []
  for await (const { rows, columns } of cursor) {
    const [rooms, points] = columns
    for (let i = 0; i < rows; i++) found.push({ room: String(rooms.values[i]), dewPoint: Number(points.values[i]) })
  }
  return found
}

export default highest
