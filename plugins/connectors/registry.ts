/** The connectors of the node, and what is shown of them. */
import type { Connector, Connectors } from 'svcdb'

interface ConnectorView {
  name: string
  connector_type: string
  /** As the contract writes it. */
  status: 'Running' | 'Idle' | 'Reconnecting' | 'Stopped' | { failed: string }
  metrics: {
    messages_total: number
    points_total: number
    decode_errors: number
    lag: number | null
    /** Points a second since it was connected. */
    throughput: number
  }
}

export class Registry implements Connectors {
  private readonly known = new Map<string, Connector>()
  private readonly ofStorage: () => readonly Connector[]

  /** @param ofStorage those that the storage engine has itself. */
  constructor(ofStorage: () => readonly Connector[]) {
    this.ofStorage = ofStorage
  }

  add(connector: Connector): void {
    const taken = this.known.get(connector.name)
    if (taken !== undefined) throw new Error(`cannot name two connectors "${connector.name}": ${taken.type} has one; choose another name`)
    this.known.set(connector.name, connector)
  }

  all(): Connector[] {
    return [...this.known.values(), ...this.ofStorage()]
  }

  views(connectors: readonly Connector[]): ConnectorView[] {
    return connectors.map(viewOf)
  }
}

const SHOWN = { running: 'Running', idle: 'Idle', reconnecting: 'Reconnecting', stopped: 'Stopped' } as const

function viewOf(connector: Connector): ConnectorView {
  const { received, points, deadLettered, pointsPerSecond, status } = connector.status()
  return {
    name: connector.name,
    connector_type: connector.type,
    status: typeof status === 'string' ? SHOWN[status] : status,
    metrics: {
      messages_total: received,
      points_total: points,
      decode_errors: deadLettered,
      lag: connector.lag(),
      throughput: Math.round(pointsPerSecond * 1000) / 1000,
    },
  }
}
