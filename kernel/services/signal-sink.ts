/** Who wants signals of triggers inside the node provides the service SIGNAL_SINK, a `SignalSink`: triggers hand over what they find. */
export const SIGNAL_SINK = 'signal_sink'

/** A trigger has fired for a point. Names are those of its JSON. */
export interface TriggerSignal {
  /** The same whenever it is handed over again. */
  event_id: string
  trigger_name: string
  measurement: string
  tags: Record<string, string>
  /** Of the point, nanoseconds, as decimal text. */
  timestamp: string
  severity: 'info' | 'warning' | 'critical'
  value: number
  condition: string
}

/** The service SIGNAL_SINK. */
export interface SignalSink {
  /**
   * Resolves when what is to be done about them is durable. The same signals may come again, after a crash or where another channel failed.
   * @param namespace `default` without multi_tenancy. @throws what the state store throws, and when it may not be done yet: they come again.
   */
  take(namespace: string, signals: readonly TriggerSignal[]): Promise<void>
}
