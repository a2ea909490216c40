/** The body: a CloudEvent 1.0 in JSON, in structured mode. */
import type { WebhookEvent } from 'svcdb'

export const CONTENT_TYPE = 'application/cloudevents+json; charset=utf-8'

export function envelope({ id, source, type, time, subject, data }: WebhookEvent): string {
  return JSON.stringify({
    specversion: '1.0',
    id,
    source,
    type,
    ...(subject === undefined ? {} : { subject }),
    time: new Date(time).toISOString(),
    datacontenttype: 'application/json',
    data,
  })
}
