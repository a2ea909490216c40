/** Sources that are configured: connectors to brokers. Whoever lists them provides the service CONNECTORS, a `Connectors`; each plugin with connectors adds its own. */
import type { Replayed, SourceStatus } from '../lib/source/index.ts'

export type { Replayed }

/** Name of the service `Connectors`. */
export const CONNECTORS = 'connectors'

/** One connection to a broker, as it is listed. */
export interface Connector {
  /** Unique in the node: `mqtt-default`. */
  name: string
  /** `kafka`, `mqtt`. */
  type: string
  /** Where its points go. */
  namespace: string
  status(): SourceStatus
  /** Messages that wait at the broker; null where that cannot be known. */
  lag(): number | null
  /** Reads all dead letters again. Absent where that cannot be done. @throws SvcError. */
  replay?(): Promise<Replayed>
}

/** The service CONNECTORS. */
export interface Connectors {
  /** Call it in setup. @throws Error for a name that is taken. */
  add(connector: Connector): void
}
