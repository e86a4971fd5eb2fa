// The key that leads to the next question from anywhere.

import { useKeys } from '../../keyboard.js';

export const useQuestionKey = (ctx) => useKeys({ q: () => ctx.go('#/questions') });
