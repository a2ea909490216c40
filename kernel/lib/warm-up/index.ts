export { WARM_UP_ROWS, type WarmUp } from './warm-up.ts'
