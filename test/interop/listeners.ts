/** A server with the listeners that programs in other languages go through, each on a free port. */
import assert from 'node:assert/strict'
import { type Node, startNode } from './node.ts'

export type Protocol = 'grpc' | 'flight_sql' | 'otlp'

export interface Listeners extends Node {
  /** `127.0.0.1:port` of gRPC and of Flight SQL, where these are open. */
  grpc: string
  flight: string
  /** Line protocol. */
  write(lines: string[]): Promise<void>
}

export interface ListenerSettings {
  /** Further plugins. */
  plugins?: string[]
  /** Lines of the section of the server, perhaps with sections after it, and lines of those of the listeners. */
  server?: string
  sections?: Partial<Record<Protocol, string>>
  logLevel?: string
}

export async function startListeners(protocols: Protocol[], { plugins = [], server = '', sections = {}, logLevel }: ListenerSettings = {}): Promise<Listeners> {
  const text = protocols.map((protocol) => `[${protocol}]\n${protocol === 'otlp' ? '' : 'addr = "127.0.0.1:0"\n'}${sections[protocol] ?? ''}`)
  const node = await startNode({ plugins: ['line_protocol', 'sql', 'promql', ...protocols, ...plugins], sections: [server, ...text].join('\n'), logLevel })
  const address = (protocol: Protocol): string => `127.0.0.1:${new RegExp(`${protocol}: listening .*\\bport=(\\d+)`).exec(node.output())?.[1]}`
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
