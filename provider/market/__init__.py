"""From an order to a bid, or to the reasons against it. No order is bid on twice, and no bid is sent without a record
of its decision.

The way of an order, top-down: `loop` receives the event, `bidding.consider` handles the order, `judgement.judge` reads,
decides, reserves and records, `bidding` sends the bid, `bid_end` ends it. `reconcile` compares everything with the
chain's state, each minute and after a missed event. `decision.decide` is the pure function that decides, `pricing` says
where the price comes from, `record` what is written about a decision.
"""
