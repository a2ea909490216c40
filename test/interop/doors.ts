/** A server with the doors that programs in other languages go through, each on a free port. */
import assert from 'node:assert/strict'
import { type Node, startNode } from './node.ts'

export type Door = 'grpc' | 'flight_sql' | 'otlp'

export interface Doors extends Node {
  /** `127.0.0.1:port` of gRPC and of Flight SQL, where these are open. */
  grpc: string
  flight: string
  /** Line protocol. */
  write(lines: string[]): Promise<void>
}

export interface DoorSettings {
  /** Further plugins. */
  plugins?: string[]
  /** Lines of the section of the server, perhaps with sections after it, and lines of those of the doors. */
  server?: string
  sections?: Partial<Record<Door, string>>
  logLevel?: string
}

export async function startDoors(doors: Door[], { plugins = [], server = '', sections = {}, logLevel }: DoorSettings = {}): Promise<Doors> {
  const text = doors.map((door) => `[${door}]\n${door === 'otlp' ? '' : 'addr = "127.0.0.1:0"\n'}${sections[door] ?? ''}`)
  const node = await startNode({ plugins: ['line_protocol', 'sql', 'promql', ...doors, ...plugins], sections: [server, ...text].join('\n'), logLevel })
  const address = (door: Door): string => `127.0.0.1:${new RegExp(`${door}: listening .*\\bport=(\\d+)`).exec(node.output())?.[1]}`
  return {
    ...node,
    grpc: address('grpc'),
    flight: address('flight_sql'),
    async write(lines) {
      const answer = await fetch(`${node.url}/write`, { method: 'POST', body: lines.join('\n') })
      assert.equal(answer.status, 204, await answer.text())
    },
  }
}
