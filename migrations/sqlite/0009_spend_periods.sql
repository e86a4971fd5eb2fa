-- What was spent in a day or a month: for its figures, and to forget it when it is old.
CREATE INDEX spend_of_period ON spend (period);
