// What the demo model has answers for without a script.

export const DINNER = 'Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.';
export const INVITE = 'Send the team an invitation to the dinner.';
export const MENU = 'Five guests want the vegetarian menu at 36.00: change the plan and tell me the new share.';
