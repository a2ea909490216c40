/** A server with every door that programs in other languages go through, each on a port of its own. */
import assert from 'node:assert/strict'
import { freePort } from '../support/free-port.ts'
import { type Node, startNode } from './node.ts'

export interface Doors extends Node {
  /** `127.0.0.1:port` of gRPC and of Flight SQL. */
  grpc: string
  flight: string
  /** Line protocol. */
  write(lines: string[]): Promise<void>
}

/** Lines of the sections, added to what is set here. */
export interface DoorSettings {
  server?: string
  grpc?: string
  flightSql?: string
  otlp?: string
}

export async function startDoors({ server = '', grpc = '', flightSql = '', otlp = '' }: DoorSettings = {}): Promise<Doors> {
  const addresses = { grpc: `127.0.0.1:${await freePort()}`, flight: `127.0.0.1:${await freePort()}` }
  const sections = [
    server,
    `[grpc]\naddr = "${addresses.grpc}"\n${grpc}`,
    `[flight_sql]\naddr = "${addresses.flight}"\n${flightSql}`,
    ...(otlp === '' ? [] : [`[otlp]\n${otlp}`]),
  ]
  const node = await startNode({ plugins: ['line_protocol', 'sql', 'promql', 'grpc', 'flight_sql', 'otlp'], sections: sections.join('\n') })
  return {
    ...node,
    ...addresses,
    async write(lines) {
      const answer = await fetch(`${node.url}/write`, { method: 'POST', body: lines.join('\n') })
      assert.equal(answer.status, 204, await answer.text())
    },
  }
}
