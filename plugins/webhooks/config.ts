import { alsoNamed, FILE_PATH, Secret, settableBy } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

const MIB = 2 ** 20
const DAY = 86_400

const secs = (value: number, minimum: number, maximum: number, description: string) => Type.Number({ default: value, minimum, maximum, description })
const count = (value: number, maximum: number, description: string) => Type.Integer({ default: value, minimum: 1, maximum, description })

export const configSchema = Type.Object({
  signing_secrets: Type.Array(Secret.schema({ description: 'A key: `whsec_` and the base64 of 24 bytes or more', minLength: 1 }), {
    ...alsoNamed('triggers.webhook_signing_secrets'),
    ...settableBy({ env: ['SVC_WEBHOOK_SIGNING_SECRET'] }),
    default: [],
    maxItems: 8,
    description:
      'Keys that deliveries are signed with, each as `whsec_` and the base64 of 24 bytes or more, newest first; every delivery has a signature by each, so that receivers can change over. Without one nothing is sent and no endpoint is taken. The variable has them with commas between',
  }),
  timeout_secs: Type.Number({
    ...alsoNamed('triggers.webhook_timeout_secs'),
    default: 10,
    minimum: 0.1,
    maximum: 120,
    description: 'Time limit of one attempt, from the name to the head of the answer',
  }),
  allow_private_targets: Type.Boolean({
    ...alsoNamed('triggers.webhook_allow_private_targets'),
    default: false,
    description: 'Endpoints may be internal hosts and addresses, and http: whoever may define one then reaches all that the server reaches',
  }),
  ca_file: Type.String({ ...FILE_PATH, default: '', description: 'PEM file of authorities to trust beside those of Node.js; empty = none' }),
  max_event_bytes: Type.Integer({ default: 262_144, minimum: 1024, maximum: 4 * MIB, description: 'Bytes of one body; what is larger is refused' }),
  queue_size: count(1000, 100_000, 'Deliveries that may wait for one endpoint; the oldest is dropped for a new one'),
  namespace_queue_bytes: Type.Integer({
    default: 8 * MIB,
    minimum: MIB,
    maximum: 2 ** 40,
    description:
      'Bytes that may wait for the endpoints of one namespace, those of the bodies and 512 for each delivery; then its oldest is dropped, of the endpoint for which most waits',
  }),
  max_queue_bytes: Type.Integer({
    default: 64 * MIB,
    minimum: MIB,
    maximum: 2 ** 40,
    description: 'Bytes that may wait in all, likewise; then the oldest is dropped of the namespace for which most waits',
  }),
  namespace_endpoints: count(100, 100_000, 'Endpoints of one namespace'),
  max_endpoints: count(10_000, 100_000, 'Endpoints in all'),
  max_in_flight: Type.Integer({
    default: 256,
    minimum: 2,
    maximum: 4096,
    description: 'Attempts at one time in all. Half of them at most are for endpoints that did not take their last delivery within a second',
  }),
  namespace_in_flight: Type.Integer({ default: 64, minimum: 2, maximum: 4096, description: 'Attempts at one time for endpoints of one namespace, likewise' }),
  endpoint_in_flight: count(2, 64, 'Attempts at one time for one endpoint; 1 for one that did not take its last delivery within a second'),
  retry_initial_secs: secs(2, 0.01, 3600, 'Pause after a first failure, which doubles with each further one; up to half of it is left out by chance'),
  retry_max_secs: secs(256, 0.01, DAY, 'The longest such pause'),
  retry_after_max_secs: secs(3600, 0, DAY, 'The longest pause that an endpoint may ask for by Retry-After'),
  max_age_secs: secs(3 * DAY, 1, 365 * DAY, 'A delivery that nobody has taken for so long is given up'),
  park_after_secs: secs(5 * DAY, 1, 365 * DAY, 'An endpoint that has taken nothing for so long is parked: nothing is sent to it until it is rearmed'),
  drain_secs: secs(5, 0, 60, 'How long a stop of the server waits for what can be sent at once; the rest is sent after the next start'),
})

export type WebhooksConfig = Static<typeof configSchema>
