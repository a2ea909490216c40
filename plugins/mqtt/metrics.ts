import type { Counter, Metrics } from 'svcdb'

export interface MqttMetrics {
  received: Counter
  reconnections: Counter
  decodeErrors: Counter
  retained: Counter
  dropped: Counter
}

export function mqttMetrics(metrics: Metrics): MqttMetrics {
  return {
    received: metrics.counter('mqtt_messages_received_total', 'Messages received'),
    reconnections: metrics.counter('mqtt_reconnections_total', 'Connections after the first one of each connector'),
    decodeErrors: metrics.counter('mqtt_decode_errors_total', 'Messages that could not be stored, in whole or in part; they are with the dead letters'),
    retained: metrics.counter('mqtt_retained_messages_total', 'Of those received, messages that the broker had kept'),
    dropped: metrics.counter('mqtt_dead_letters_dropped_total', 'Dead letters that gave way to newer ones', ['connector']),
  }
}
